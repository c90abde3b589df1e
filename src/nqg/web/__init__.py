"""The web page and the JSON API of a trained model; needs the extra `web`."""
