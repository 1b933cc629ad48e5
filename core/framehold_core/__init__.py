"""The sans-IO core: the whole life of a call as values and pure functions.

Standard library only, and none of it that does I/O: no event loop, clock, random source, log or environment.
Time is an argument, effects are return values. Start reading at `continuation`, the transition table; `retry` is
where a retry is decided; `record` says what each store script means.
"""
