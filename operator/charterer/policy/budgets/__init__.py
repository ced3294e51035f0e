"""Money: the load on a budget, its pace, its exchange rate, its forecast, its deadlines and full pools.

Nothing here acts on a job or a node. ``policy.actions`` decides what is done with a solved budget."""
