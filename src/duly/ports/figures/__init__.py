"""What figures ask of a store: the gauges of metrics, and forecasts."""
