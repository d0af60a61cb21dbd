package terraform_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/test/harness"
)

// The page docs/reference/terraform.md says what happens to a lambda that Terraform forgets, and how it is brought
// back.
var (
	docsRemoved = regexp.MustCompile("(?s)```hcl\n(removed \\{\n.*?)```")
	docsDelete  = regexp.MustCompile(`aws dynamodb delete-item --table-name prod-(\w+) --key '([^']+)'`)
	docsBack    = regexp.MustCompile("(?s)```hcl\n(import \\{\n  for_each = toset\\(\\[\"high\".*?)```")
)

// forgotten is a lambda that is taken out of the state and goes on.
type forgotten struct {
	*workspace

	server                     *harness.Server
	call, removed, back, table string
	key                        map[string]map[string]string
}

// TestForgotten has Terraform forget a lambda, brings it back, and ends it, as docs/reference/terraform.md says.
func TestForgotten(t *testing.T) {
	f := &forgotten{workspace: newWorkspace(t, ""), call: `
module "receipts" {
  source = "../modules/lambda"

  core   = module.core.lambdas
  name   = "receipts"
  alarms = false
}
`}
	f.read()
	f.in("one", guardCore+f.call)
	f.apply()
	f.server = harness.StartServer(t, harness.ServerOptions{
		Env: append(f.aws.Env(), "KINESIN_STORE=dynamodb", "KINESIN_QUEUE=sqs", "KINESIN_AWS_PREFIX="+f.prefix),
	})
	f.works(f.server, "receipts")
	f.forget()
	f.write("main.tf", guardCore+f.call)
	f.must("init")
	if got := f.run("apply", "-auto-approve"); got.Code != 1 || !strings.Contains(said(got), "ConditionalCheckFailedException") {
		t.Errorf("a call of the name again: exit status %d: %s", got.Code, said(got))
	}

	f.deleteRow()
	f.write("main.tf", guardCore+f.call+f.back)
	if got := f.apply(); !strings.Contains(got, "4 imported") || !strings.Contains(got, " 0 destroyed") {
		t.Errorf("it is not back as it was: %s", got)
	}
	f.write("main.tf", guardCore+f.call)
	f.unchanged()
	f.works(f.server, "receipts")

	f.forget()
	f.deleteRow()
	f.server.Run("lambda", "delete", "receipts").Must(t)
	if code := f.server.Shutdown(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	f.write("main.tf", guardCore)
	f.must("init")
	f.must("destroy", "-auto-approve")
}

// read takes the blocks from the page, for this installation.
func (f *forgotten) read() {
	f.t.Helper()
	page, err := os.ReadFile("../../docs/reference/terraform.md")
	if err != nil {
		f.t.Fatal(err)
	}
	removed, row, back := docsRemoved.FindSubmatch(page), docsDelete.FindSubmatch(page), docsBack.FindSubmatch(page)
	if removed == nil || row == nil || back == nil {
		f.t.Fatalf("docs/reference/terraform.md lacks a block: %q, %q, %q", removed, row, back)
	}
	f.removed, f.table = string(removed[1]), f.prefix+"-"+string(row[1])
	if err := json.Unmarshal(row[2], &f.key); err != nil {
		f.t.Fatalf("the key %s: %v", row[2], err)
	}
	f.back = docsPrefix.ReplaceAllString(string(back[1]), "${1}"+f.prefix+"-")
	f.back = strings.ReplaceAll(f.back, "https://sqs.eu-west-1.amazonaws.com/111122223333", f.aws.SQS+"/000000000000")
	f.back = strings.ReplaceAll(f.back, "111122223333", "000000000000")
}

// forget takes the lambda out of the state, and looks that it is where it was.
func (f *forgotten) forget() {
	f.t.Helper()
	f.write("main.tf", guardCore+f.removed)
	f.must("init")
	if got := f.apply(); !strings.Contains(got, " 0 destroyed") {
		f.t.Errorf("forgotten, and not left alone: %s", got)
	}
	if state := f.must("state", "list"); strings.Contains(state, "receipts") {
		f.t.Errorf("it is not forgotten: %s", state)
	}
	got := f.server.Run("lambda", "delete", "receipts")
	if got.Code == 0 || !strings.Contains(got.Stderr, "Terraform") {
		f.t.Errorf("a registered lambda was deleted: %d: %s", got.Code, got.Stderr)
	}
}

// deleteRow is what the command of the page does.
func (f *forgotten) deleteRow() {
	f.t.Helper()
	key := map[string]types.AttributeValue{}
	for name, value := range f.key {
		key[name] = &types.AttributeValueMemberS{Value: value["S"]}
	}
	out, err := dynamodb.NewFromConfig(f.aws.Config(f.t)).DeleteItem(f.t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(f.table), Key: key, ReturnValues: types.ReturnValueAllOld,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if out.Attributes == nil {
		f.t.Errorf("there is no row %v in %s", f.key, f.table)
	}
}
