"""How right a parser is: metrics with their intervals, causes of errors, calibration."""
