"""The supervisor's side of the network proxy: its process, its questions, agents' tickets."""
