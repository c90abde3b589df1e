"""The formalism: rules, grammars, derivations, the chart and its algebras, and grammars of legal targets."""
