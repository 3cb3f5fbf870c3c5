"""btbench: which router do your LLM replicas need?"""

__version__ = "0.1.0"
