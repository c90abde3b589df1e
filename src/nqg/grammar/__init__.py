"""The formalism: rules, grammars, derivations, charts, and semirings over them."""
