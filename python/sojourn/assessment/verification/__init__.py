"""The counterfactual, done: what a change gives is predicted, kept, and then the change is made and measured.

`changes` has the changes, one table; `foretelling` what the fitted model says of them; `carrying_out` makes a change
and measures; `comparison` puts both side by side. A prediction is in the run's folder before its measurement begins, so
that it cannot be fitted to it.
"""
