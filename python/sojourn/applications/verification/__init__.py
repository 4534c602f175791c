"""Changes of an application that are carried out: what they give is predicted, kept, and then measured.

`planned` reads what was typed, `processor_quota` limits the cores of processes that run already, `carrying_out` makes a
change and measures the knee anew. A prediction is in the run's folder before its measurement begins.
"""
