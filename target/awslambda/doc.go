// Package awslambda invokes a function of AWS Lambda for each attempt of a task: Runner is the handler of a
// worker. It owns what a function gets, what its answer means, and which functions may be invoked. It knows
// nothing of servers.
package awslambda
