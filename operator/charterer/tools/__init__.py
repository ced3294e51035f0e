"""Code that a running operator never imports: commands for users, the simulator, the fake cloud, and bill readers."""
