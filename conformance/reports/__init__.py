"""One stream of verdicts, many reporters: JSON, JUnit, HTML and the terminal."""
