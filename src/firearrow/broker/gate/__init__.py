"""The one way from "placed" to "success", and what each request's success means."""
