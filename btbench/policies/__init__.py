"""Where a request goes. One file a policy: its parameters, its rule in words, its compiled kernel.

`registry.KINDS` lists them; `router.route` is the chain of kernels the engine calls.
"""
