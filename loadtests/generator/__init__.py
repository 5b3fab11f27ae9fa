"""The generator: everything that runs inside a locust process. Only locust files import it, for locust is gevent."""
