"""`make test` and `make nightly`: which tests run, in which order, and what each stage of them needs."""
