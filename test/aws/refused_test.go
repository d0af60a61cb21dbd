package aws_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/test/harness"
)

// refuseMax is how long a start may take to say what is wrong.
const refuseMax = 30 * time.Second

// refused starts a server that cannot start, and checks the exit status and what it says; `aws setup` says
// the same.
func (s site) refused(t *testing.T, env []string, code int, texts ...string) {
	t.Helper()
	harness.Kinesin(t) // built before the time counts
	began := time.Now()
	r := harness.Command{
		Args: []string{"serve", "--store", "dynamodb", "--queue", "sqs", "--aws-prefix", s.AWS.Prefix, "--listen", "127.0.0.1:0", "--log-level", "error"},
		Env:  append(s.AWS.Env(), env...),
	}.Run(t)
	if took := time.Since(began); took > refuseMax {
		t.Errorf("it took %v to say so", took)
	}
	r.Refused(t, code, texts...)
}

// stub is an endpoint that refuses every request in the same way.
func stub(t *testing.T, code, message string, date func() time.Time) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if date != nil {
			w.Header().Set("Date", date().UTC().Format(http.TimeFormat))
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		body, _ := json.Marshal(map[string]string{"__type": "com.amazon.coral.service#" + code, "message": message}) //nolint:errchkjson // texts only
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestNotSetUp(t *testing.T) {
	s := newSite(t)
	s.refused(t, nil, 3, s.AWS.Prefix+"-tasks: table is missing", s.AWS.Prefix+"-control", "SQS queue "+s.AWS.Prefix+"-inbound is missing", "run: kinesin aws setup --aws-prefix "+s.AWS.Prefix, s.AWS.DynamoDB)
	s.AWS.Setup(t).Must(t)
	server := s.Serve()
	server.Run("lambda", "create", "mail", "--priorities", "one").Must(t)
	server.Shutdown()
	s.deleteQueue("mail-one")
	s.refused(t, nil, 3, "SQS queue "+s.AWS.Prefix+"-mail-one is missing", "kinesin aws setup")
}

func TestATableWithAnotherKey(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t).Must(t)
	client := dynamodb.NewFromConfig(s.AWS.Config(t))
	name := aws.String(s.AWS.Prefix + "-schedule")
	if _, err := client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: name}); err != nil {
		t.Fatal(err)
	}
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.refused(t, nil, 3, s.AWS.Prefix+"-schedule: key is id S HASH, want ")
	r := s.AWS.Setup(t, "-o", "json")
	if r.Code != 3 || !strings.Contains(r.Stderr, "nothing was changed") || !strings.Contains(r.Stdout, `"differs"`) {
		t.Errorf("setup says %+v", r)
	}
}

func TestWhatIsWrongWithAWS(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t).Must(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	hourAgo := func() time.Time { return time.Now().Add(-time.Hour) }
	denied := "User: arn:aws:iam::123456789012:user/kinesin is not authorized to perform: dynamodb:DescribeTable"
	for _, c := range []struct {
		name  string
		env   []string
		code  int
		texts []string
	}{
		{"no credentials", []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="}, 3, []string{"no AWS credentials", "AWS_ACCESS_KEY_ID"}},
		{"no region", []string{"AWS_REGION="}, 3, []string{"no AWS region", "AWS_REGION"}},
		{"no such profile", []string{"AWS_PROFILE=nobody"}, 3, []string{"nobody"}},
		{"endpoint down", []string{"AWS_ENDPOINT_URL_DYNAMODB=" + down}, 1, []string{"nothing answers dynamodb:DescribeTable at " + down}},
		{"no such host", []string{"AWS_ENDPOINT_URL_DYNAMODB=http://dynamodb.nowhere.invalid"}, 1, []string{"dynamodb.nowhere.invalid"}},
		{"endpoints swapped", []string{"AWS_ENDPOINT_URL_SQS=" + s.AWS.DynamoDB}, 3, []string{"the endpoint does not know sqs:GetQueueUrl", "that of SQS?"}},
		{"no URL", []string{"AWS_ENDPOINT_URL_DYNAMODB=not-a-url"}, 3, []string{`"not-a-url"`, "AWS_ENDPOINT_URL_DYNAMODB"}},
		{"SQS down", []string{"AWS_ENDPOINT_URL_SQS=" + down}, 1, []string{"nothing answers sqs:GetQueueUrl at " + down, "(connection refused)"}},
		{"something else", []string{"AWS_ENDPOINT_URL_DYNAMODB=" + s.AWS.SQS}, 1, []string{"not by AWS"}},
		{
			"denied",
			[]string{"AWS_ENDPOINT_URL_DYNAMODB=" + stub(t, "AccessDeniedException", denied, nil)},
			3,
			[]string{"AWS denies dynamodb:DescribeTable", "arn:aws:iam::123456789012:user/kinesin"},
		},
		{
			"wrong region",
			[]string{"AWS_ENDPOINT_URL_DYNAMODB=" + stub(t, "InvalidSignatureException", "Credential should be scoped to a valid region, not 'us-east-1'.", nil)},
			3,
			[]string{"another region", "AWS_REGION"},
		},
		{
			"wrong secret",
			[]string{"AWS_ENDPOINT_URL_DYNAMODB=" + stub(t, "UnrecognizedClientException", "The security token included in the request is invalid.", nil)},
			3,
			[]string{"refuses the credentials"},
		},
		{
			"clock off for signatures",
			[]string{"AWS_ENDPOINT_URL_DYNAMODB=" + stub(t, "InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier", hourAgo)},
			3,
			[]string{"clock is off", "synchronise"},
		},
		{
			"clock off",
			[]string{"AWS_ENDPOINT_URL_DYNAMODB=" + stub(t, "ResourceNotFoundException", "no such table", hourAgo)},
			3,
			[]string{"this machine's clock is at least", "ahead of that of AWS"},
		},
		{"SQS down", []string{"AWS_ENDPOINT_URL_SQS=" + down}, 1, []string{"nothing answers sqs:GetQueueUrl at " + down}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s.refused(t, c.env, c.code, c.texts...)
		})
	}
}

func TestBadUsage(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"serve", "--store", "dynamodb", "--aws-prefix", "p"}, []string{"queue memory", "use queue sqs"}},
		{[]string{"serve", "--store", "dynamodb", "--queue", "sqs"}, []string{"--aws-prefix"}},
		{[]string{"serve", "--store", "dynamodb", "--queue", "sqs", "--aws-prefix", "no spaces"}, []string{"1 to 20 characters"}},
		{[]string{"serve", "--store", "mysql"}, []string{"pebble or dynamodb"}},
		{[]string{"serve", "--queue", "sqs", "--aws-prefix", "p", "--deliver-direct", "16m"}, []string{"15m"}},
		{[]string{"serve", "--queue", "sqs", "--aws-prefix", "p", "--message-max", "7"}, []string{"message limit 7"}},
		{[]string{"serve", "--store", "dynamodb", "--queue", "sqs", "--aws-prefix", "p", "--window", "1m"}, []string{"at most 18s"}},
		{[]string{"aws", "setup"}, []string{"--aws-prefix is missing"}},
		{[]string{"aws", "setup", "--aws-prefix", strings.Repeat("x", 21)}, []string{"1 to 20 characters"}},
		{[]string{"aws"}, []string{"a command is missing"}},
	} {
		s.AWS.Run(t, c.args...).Refused(t, 2, c.texts...)
	}
}
