package awslocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Where a pair that is already there is found.
const (
	EnvDynamoDB = "KINESIN_TEST_DYNAMODB"
	EnvSQS      = "KINESIN_TEST_SQS"
)

// Pair is a DynamoDB Local and an ElasticMQ.
type Pair struct {
	Endpoints
	emulators []*Emulator // none when they are somebody else's
}

// Launch starts a pair, both at once. It is for programs; tests call [Start].
func Launch(ctx context.Context, dynamo, sqs Options) (*Pair, error) {
	var wg sync.WaitGroup
	var started [2]*Emulator
	var errs [2]error
	for i, launchOne := range []func() (*Emulator, error){
		func() (*Emulator, error) { return launch(ctx, dynamoDBLocal, dynamo) },
		func() (*Emulator, error) { return launch(ctx, elasticMQ, sqs) },
	} {
		wg.Go(func() { started[i], errs[i] = launchOne() })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		for _, e := range started {
			if e != nil {
				e.close()
			}
		}
		return nil, err
	}
	return &Pair{Endpoints{DynamoDB: started[0].URL(), SQS: started[1].URL()}, started[:]}, nil
}

// Close kills both.
func (p *Pair) Close() {
	for _, e := range p.emulators {
		e.close()
	}
}

// shared is the pair of all tests of this program.
var shared struct {
	once sync.Once
	pair *Pair
	err  error
}

// Start is the pair that all tests of this program share. The first call starts it, where there is none.
// Under -short the test is skipped, as all are that run processes.
func Start(tb testing.TB) Endpoints {
	tb.Helper()
	needsJava(tb)
	shared.once.Do(func() { shared.pair, shared.err = find(context.WithoutCancel(tb.Context())) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	tb.Cleanup(func() {
		if !tb.Failed() {
			return
		}
		for _, e := range shared.pair.emulators {
			tb.Logf("%s at %s said:\n%s", e.kind.name, e.URL(), e.Log())
		}
	})
	return shared.pair.Endpoints
}

func needsJava(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("runs the AWS emulators")
	}
}

func find(ctx context.Context) (*Pair, error) {
	given := Endpoints{DynamoDB: os.Getenv(EnvDynamoDB), SQS: os.Getenv(EnvSQS)}
	switch {
	case given == Endpoints{}:
		return Launch(ctx, Options{}, Options{})
	case given.DynamoDB == "" || given.SQS == "":
		return nil, fmt.Errorf("%s and %s are to be set both or not at all", EnvDynamoDB, EnvSQS)
	}
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	if err := errors.Join(probe(ctx, given.DynamoDB, dynamoDBLocal.target), probe(ctx, given.SQS, elasticMQ.target)); err != nil {
		return nil, fmt.Errorf("%s or %s names no running emulator: %w", EnvDynamoDB, EnvSQS, err)
	}
	return &Pair{Endpoints: given}, nil
}

// Program is what a TestMain runs.
type Program struct{ m *testing.M }

// Main makes the shared pair end before the test program does, so that nothing of it is left to be
// seen. Without it the pair dies with the program.
func Main(m *testing.M) Program { return Program{m} }

// Run runs all tests.
func (p Program) Run() int {
	code := p.m.Run()
	if shared.pair != nil {
		shared.pair.Close()
	}
	return code
}
