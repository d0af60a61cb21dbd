// Package awsfaults breaks Kinesin on AWS as it runs there: processes of the built binary on DynamoDB Local
// and ElasticMQ, each of which is killed, stopped, emptied, slowed down and cut off under load. The whole
// history is judged by package checker, and messages of deliver lambdas by what a plain SQS client received.
package awsfaults
