"""The network proxy as the supervisor sees it: its process, its questions, agents' tickets."""
