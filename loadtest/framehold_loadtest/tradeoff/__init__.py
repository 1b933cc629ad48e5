"""The same tool, written in each way, under the same load and the same faults: `framehold bench tradeoff`."""
