"""Small programs that drive the stock clients, one directory a language; `judges` runs them."""
