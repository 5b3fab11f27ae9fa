"""Two gateways side by side: the same generated requests, the same scripted worker answers, and where they disagree.

    python -m conformance differ --left reference --right smg@1.12.0 --requests 20000

What is compared is meaning, not bytes of JSON: status, shape of the error, what the worker received, and the bytes of
a relayed answer. Every disagreement is made small and put into a class; known classes are listed with the clause that
decides them. See docs/differ.md.
"""
