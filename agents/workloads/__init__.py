"""Traffic over queue pairs, sans-IO and blind to the transport: the same over MRC and RoCE, kernel and simulator."""
