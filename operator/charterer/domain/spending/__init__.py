"""What rented nodes cost, for whom and for what: the rows that outlive rentals and jobs."""
