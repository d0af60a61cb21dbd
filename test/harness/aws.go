package harness

import (
	"slices"
	"testing"
)

// AWS is where servers keep their tasks and messages when they run on DynamoDB and SQS.
type AWS struct {
	Prefix string   // of all tables and queues
	Env    []string // endpoints and credentials
}

// Setup runs `kinesin aws setup`, which must succeed.
func (a AWS) Setup(tb testing.TB) {
	tb.Helper()
	a.Run(tb, "aws", "setup", "--aws-prefix", a.Prefix).Must(tb)
}

// Run runs `kinesin ARGS` with the environment to its end.
func (a AWS) Run(tb testing.TB, args ...string) Result {
	tb.Helper()
	return Command{Args: args, Env: a.Env}.Run(tb)
}

// Server is how to run a server there.
func (a AWS) Server(h *History, args ...string) ServerOptions {
	flags := []string{"--store", "dynamodb", "--queue", "sqs", "--aws-prefix", a.Prefix}
	return ServerOptions{Args: slices.Concat(flags, args), Env: a.Env, History: h}
}
