package awslocal

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/logging"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

func TestMain(m *testing.M) {
	if os.Getenv(envVictim) != "" {
		victim()
	}
	goleak.VerifyTestMain(Main(m))
}

// envVictim makes the test program start an emulator and wait to be killed.
const envVictim = "KINESIN_AWSLOCAL_VICTIM"

func victim() {
	e, err := launch(context.Background(), elasticMQ, Options{})
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(os.Stdout, strconv.Itoa(e.PID())+"\n")
	select {}
}

func TestSharedPair(t *testing.T) {
	t.Parallel()
	local := Start(t)
	name := aws.String(local.Prefix(t) + "-a")
	cfg := local.Config(t)
	cfg.Logger = &warnings{t}

	db := dynamodb.NewFromConfig(cfg)
	createTable(t, db, name)
	put(t, db, name, "one")
	var refused *types.ConditionalCheckFailedException
	if err := tryPut(t.Context(), db, name, "one"); !errors.As(err, &refused) {
		t.Errorf("second put of one row: %v, want a failed condition", err)
	}

	queues := sqs.NewFromConfig(cfg)
	q, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: name})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("hello")}); err != nil {
		t.Fatal(err)
	}
	got, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, WaitTimeSeconds: 1})
	if err != nil || len(got.Messages) != 1 || *got.Messages[0].Body != "hello" {
		t.Errorf("received %+v, %v", got, err)
	}
}

// TestPrefixIsSwept looks for what a finished test made.
func TestPrefixIsSwept(t *testing.T) {
	local := Start(t)
	cfg := local.Config(t)
	db, queues := dynamodb.NewFromConfig(cfg), sqs.NewFromConfig(cfg)
	var prefix string
	t.Run("makes things", func(t *testing.T) {
		prefix = local.Prefix(t)
		for _, suffix := range []string{"a", "b", "c"} {
			createTable(t, db, aws.String(prefix+suffix))
			if _, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(prefix + suffix)}); err != nil {
				t.Fatal(err)
			}
		}
	})
	tables, err := db.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(tables.TableNames, func(n string) bool { return strings.HasPrefix(n, prefix) }); i >= 0 {
		t.Errorf("table %s is still there", tables.TableNames[i])
	}
	left, err := queues.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: &prefix})
	if err != nil || len(left.QueueUrls) != 0 {
		t.Errorf("queues left: %v, %v", left.QueueUrls, err)
	}
}

// TestEnvIsEnough makes clients as a program does that knows only its environment.
func TestEnvIsEnough(t *testing.T) {
	local := Start(t)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	for _, line := range local.Env() {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	client := awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) { tr.DisableKeepAlives = true })
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithLogger(&warnings{t}), config.WithHTTPClient(client))
	if err != nil {
		t.Fatal(err)
	}
	db := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true })
	name := aws.String(local.Prefix(t))
	createTable(t, db, name)
	put(t, db, name, "one")
	if err := tryPut(t.Context(), db, name, "one"); err == nil {
		t.Error("second put of one row went through")
	}
	if _, err := sqs.NewFromConfig(cfg).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: name}); err == nil {
		t.Error("a queue that nobody made has a URL")
	}
}

// warnings fails the test that gets one.
type warnings struct{ t *testing.T }

func (w *warnings) Logf(level logging.Classification, format string, args ...any) {
	w.t.Errorf("SDK: "+string(level)+": "+format, args...)
}

func TestRestartKeepsDataOnDisk(t *testing.T) {
	t.Parallel()
	e := DynamoDB(t, Options{DBPath: t.TempDir()})
	db := dynamodb.NewFromConfig(Endpoints{DynamoDB: e.URL()}.Config(t))
	name := aws.String("rows")
	createTable(t, db, name)
	for i, end := range []func(){e.Kill, e.Stop, func() {}} {
		id := strconv.Itoa(i)
		put(t, db, name, id)
		before := e.PID()
		end()
		if err := e.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e.PID() == before {
			t.Error("still the same process")
		}
		if !has(t, db, name, id) {
			t.Errorf("row %s, acknowledged before the end, is gone", id)
		}
	}
}

func TestFrozenDoesNotAnswer(t *testing.T) {
	t.Parallel()
	e := SQS(t, Options{})
	e.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := probe(ctx, e.URL(), elasticMQ.target); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen: %v", err)
	}
	e.Thaw()
	if err := probe(t.Context(), e.URL(), elasticMQ.target); err != nil {
		t.Errorf("thawed: %v", err)
	}
}

func TestTakenPortIsSaid(t *testing.T) {
	t.Parallel()
	needsJava(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, portText, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []kind{elasticMQ, dynamoDBLocal} {
		e, err := launch(t.Context(), k, Options{Port: port})
		if err == nil {
			e.close()
			t.Fatalf("%s started on a taken port", k.name)
		}
		if !errors.Is(err, loopback.ErrPortTaken) {
			t.Errorf("%s: %v, want %v", k.name, err, loopback.ErrPortTaken)
		}
	}
}

// TestDiesWithTheTestProgram kills a program like this one and looks for its emulator.
func TestDiesWithTheTestProgram(t *testing.T) {
	t.Parallel()
	needsJava(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envVictim+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); running(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("java (pid %d) outlives the test program", pid)
		}
	}
}

// running is false for what has ended and waits for its parent, which may be nobody who cares.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ") && syscall.Kill(pid, 0) == nil
}

func createTable(tb testing.TB, db *dynamodb.Client, name *string) {
	tb.Helper()
	if _, err := db.CreateTable(tb.Context(), &dynamodb.CreateTableInput{
		TableName:            name,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	}); err != nil {
		tb.Fatal(err)
	}
}

func row(id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: id}}
}

// tryPut writes a row that must not be there yet.
func tryPut(ctx context.Context, db *dynamodb.Client, table *string, id string) error {
	_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: table, Item: row(id), ConditionExpression: aws.String("attribute_not_exists(id)")})
	return err
}

func put(tb testing.TB, db *dynamodb.Client, table *string, id string) {
	tb.Helper()
	if err := tryPut(tb.Context(), db, table, id); err != nil {
		tb.Fatal(err)
	}
}

func has(tb testing.TB, db *dynamodb.Client, table *string, id string) bool {
	tb.Helper()
	out, err := db.GetItem(tb.Context(), &dynamodb.GetItemInput{TableName: table, Key: row(id), ConsistentRead: aws.Bool(true)})
	if err != nil {
		tb.Fatal(err)
	}
	return len(out.Item) > 0
}
