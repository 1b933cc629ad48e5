"""A coverage-guided fuzzer (atheris) at each reader of what others write: it keeps each input that reaches new code."""
