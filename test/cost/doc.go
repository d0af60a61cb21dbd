// Package cost holds the tests of what a task takes: write and read units on DynamoDB Local, as
// ReturnConsumedCapacity tells them, and requests to ElasticMQ. docs/reference/cost.md turns these into money. Its
// servers run in the test's process, where the drivers tell what they used.
package cost
