"""Small programs that drive the stock clients, one directory a language; `firearrow.testing.apache` runs them."""
