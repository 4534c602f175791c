"""Cache simulation: hit and miss ratios of replacement policies on a trace."""
