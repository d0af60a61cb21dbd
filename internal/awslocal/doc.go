// Package awslocal runs Amazon's DynamoDB Local and ElasticMQ for tests, and a proxy that harms
// connections to them. It owns their processes, ports and logs, and asks tools/emulators/install for
// their files. It judges nothing, no production binary links it (arch_test.go holds it to that), and it
// runs on Linux only, on amd64: that is what DynamoDB Local brings its database for.
//
// A test begins with
//
//	aws := awslocal.Start(t)
//	prefix := aws.Prefix(t)
//
// and gets the pair that its whole test program shares: starting Java costs over a second. Tests keep
// apart by the prefix of their tables and queues. When KINESIN_TEST_DYNAMODB and KINESIN_TEST_SQS hold
// URLs, as they do under `make test`, that pair is used by all test programs; otherwise each starts its
// own and takes it along when it ends, even by SIGKILL. A package that looks for leaked goroutines makes
// its TestMain
//
//	goleak.VerifyTestMain(awslocal.Main(m))
//
// Tests that stop, kill or freeze an emulator have one of their own: see [DynamoDB] and [SQS]; data
// outlives a restart only in a DynamoDB with a DBPath, never in ElasticMQ. [NewProxy] stands between
// a client and either.
//
// DynamoDB Local listens on all interfaces, has no option against it and checks no credentials: whoever
// reaches the machine can read and write it. It is for tests, and these never put anything of worth into it.
//
// # Checksums
//
// DynamoDB Local sends no checksum with its error replies, a failed condition among them. The SDK takes that
// for a wrong one and warns "response did not match expected checksum, 0, …" each time. No environment
// variable helps: clients for endpoints that are not Amazon's set DisableValidateResponseChecksum in
// [github.com/aws/aws-sdk-go-v2/service/dynamodb.Options]; those made from [Endpoints.Config] need not.
package awslocal
