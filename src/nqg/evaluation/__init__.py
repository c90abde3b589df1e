"""How right a parser is: metrics with their intervals, Spider's exact set match, denotations, causes of errors."""
