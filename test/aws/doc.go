// Package aws runs the commands of a user against real processes of kinesin on DynamoDB Local and ElasticMQ:
// setting up, several servers over one set of tables and queues, lambdas of both modes, the inbound queue;
// and what is said when AWS is not as it has to be.
package aws
