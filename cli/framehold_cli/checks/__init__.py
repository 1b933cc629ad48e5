"""What commands check before they act, and the findings of `doctor`: environment, store, readiness."""
