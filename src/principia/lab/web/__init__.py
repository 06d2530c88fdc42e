"""The web pages: the course in a browser, with every computation in a process of its own."""
