"""The jobs: functions from tables to a table, DataFrame to DataFrame, that measure what the journals recorded."""
