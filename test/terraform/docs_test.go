package terraform_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// The kinds of blocks in docs/reference/terraform.md, and what they call.
var (
	docsFile   = regexp.MustCompile("(?s)```hcl\n# file: (\\w+)/main\\.tf\n(.*?)```")
	docsSource = regexp.MustCompile(`"github\.com/kinesin-io/kinesin//terraform/(modules/\w+)\?ref=[^"]+"`)
	docsMore   = regexp.MustCompile("(?s)```hcl\n(module \"invoices\" .*?)```")
	docsAdded  = regexp.MustCompile(`Apply complete! Resources: \d+ added, 0 changed, 0 destroyed\.`)
)

// TestDocs goes the way of docs/reference/terraform.md: the two configurations as they stand there, but for the prefix
// and where the modules come from; what apply says; the deliver lambda; and a server by the outputs, which
// knows the lambda and runs its tasks.
func TestDocs(t *testing.T) {
	w := newWorkspace(t, "")
	text, err := os.ReadFile("../../docs/reference/terraform.md")
	if err != nil {
		t.Fatal(err)
	}
	files, said := docsFile.FindAllStringSubmatch(string(text), -1), docsAdded.FindAllString(string(text), -1)
	more := docsMore.FindStringSubmatch(string(text))
	if more == nil || len(files) != 2 || files[0][1] != "platform" || files[1][1] != "orders" || len(said) != 2 {
		t.Fatalf("%d files and %d applies in docs/reference/terraform.md, want those of platform and orders, and the module call invoices", len(files), len(said))
	}
	dirs := make([]string, len(files))
	for i, file := range files {
		code := docsSource.ReplaceAllString(file[2], `"../$1"`)
		w.in(file[1], strings.ReplaceAll(code, `= "prod"`, `= "`+w.prefix+`"`))
		dirs[i] = w.dir
		if got := w.apply(); !strings.Contains(got, said[i]) {
			t.Errorf("%s: the page has %q: %s", file[1], said[i], got)
		}
		w.unchanged()
	}
	w.write("invoices.tf", docsSource.ReplaceAllString(more[1], `"../$1"`))
	w.must("init")
	w.apply()
	w.unchanged()
	w.dir = dirs[0]
	server := w.serve()
	w.works(server, "receipts")
	w.delivers(server, "invoices")
	shown := server.Run("lambda", "get", "receipts", "--live=false").Must(t)
	if !strings.Contains(shown, "500/s starts") {
		t.Errorf("the quota of the module call is not that of the lambda: %s", shown)
	}
	for line := range strings.Lines(shown) {
		if !strings.HasPrefix(line, "created") && !strings.Contains(string(text), strings.TrimSpace(line)) {
			t.Errorf("lambda get says %q, and the page does not", line)
		}
	}
	if code := server.Shutdown(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}

	w.dir = dirs[1]
	w.must("destroy", "-auto-approve")
	w.dir = dirs[0]
	w.kept()
	w.unprotect()
	w.must("destroy", "-auto-approve")
	w.gone()
}

// docsImport is the block of docs/reference/terraform.md that takes over what `kinesin aws setup` made.
var docsImport = regexp.MustCompile("(?s)```hcl\n(locals \\{\n  queues = .*?)```")

// docsPrefix is the page's prefix in an id.
var docsPrefix = regexp.MustCompile(`(["/])prod-`)

// TestImport has Terraform take over an installation that `kinesin aws setup` and `kinesin lambda create`
// made, while a server runs.
func TestImport(t *testing.T) {
	w := newWorkspace(t, "")
	text, err := os.ReadFile("../../docs/reference/terraform.md")
	if err != nil {
		t.Fatal(err)
	}
	block := docsImport.FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("docs/reference/terraform.md has no imports")
	}
	w.setUp()
	server := harness.StartServer(t, harness.ServerOptions{
		Env: append(w.aws.Env(), "KINESIN_STORE=dynamodb", "KINESIN_QUEUE=sqs", "KINESIN_AWS_PREFIX="+w.prefix),
	})
	server.Run("lambda", "create", "receipts").Must(t)

	imports := strings.Replace(block[1], "https://sqs.eu-west-1.amazonaws.com/111122223333", w.aws.SQS+"/000000000000", 1)
	w.in("over", guardCore+`
module "receipts" {
  source = "../modules/lambda"

  core = module.core.lambdas
  name = "receipts"
}
`+docsPrefix.ReplaceAllString(imports, "${1}"+w.prefix+"-"))
	if got := w.apply(); !strings.Contains(got, "9 imported") || !strings.Contains(got, " 0 destroyed") {
		t.Errorf("what was there was not taken over as it was: %s", got)
	}
	w.unchanged()
	w.sameAsSetup()
	w.works(server, "receipts")
	for deadline := time.Now().Add(registeredMax); ; time.Sleep(200 * time.Millisecond) {
		shown := server.Run("lambda", "get", "receipts").Must(t)
		if strings.Contains(shown, "by Terraform") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the lambda does not become that of the module call: %s", shown)
		}
	}
	if code := server.Shutdown(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	w.must("destroy", "-auto-approve")
	w.gone()
}

// setUp is `kinesin aws setup`.
func (w *workspace) setUp() {
	w.t.Helper()
	harness.Command{Args: []string{"aws", "setup", "--aws-prefix", w.prefix}, Env: w.aws.Env()}.Run(w.t).Must(w.t)
}

// docsKeep is what refuses a destroy.
var docsKeep = regexp.MustCompile(`(?s)resource "terraform_data" "keep" \{.*?\n\}\n`)

// unprotect applies the configuration without that, and with tables that may be deleted.
func (w *workspace) unprotect() {
	w.t.Helper()
	text, err := os.ReadFile(w.dir + "/main.tf")
	if err != nil {
		w.t.Fatal(err)
	}
	unkept := docsKeep.ReplaceAllString(string(text), "")
	w.write("main.tf", strings.Replace(unkept, "  prefix ", "  deletion_protection = false\n  prefix ", 1))
	w.apply()
}
