"""What a running operator never imports: commands for people, the simulator, the fake cloud, and readers of bills."""
