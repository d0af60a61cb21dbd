package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder is a module with a README.
func folder(t *testing.T, source, readme string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"all.tf": source, "README.md": readme} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const sound = `
variable "name" {
  description = "One | two."
  type        = string
}

variable "size" {
  description = "Of it."
  type = object({
    width  = optional(number, 3)
    height = optional(number, 4)
  })
  default = {}
}

output "id" {
  description = "Its id."
  value       = aws_sqs_queue.one.id
}

resource "aws_sqs_queue" "one" {}
resource "aws_sqs_queue" "two" {}
`

const marked = "# Title\n\n" + markBegin + "\n" + markEnd + "\n\nmore\n"

func TestTables(t *testing.T) {
	dir := folder(t, sound, marked)
	if err := update(dir, true); !errors.Is(err, errStale) {
		t.Errorf("check before: %v", err)
	}
	if err := update(dir, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Title\n", "\nmore\n", "| `name` | `string` | required | One \\| two. |\n", "| `size` | `object(…)` | `{}` | Of it. |\n",
		"Type of `size`:\n\n```hcl\nobject({\n  width  = optional(number, 3)\n", "| `id` | Its id. |\n", "\n`aws_sqs_queue`\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err := update(dir, true); err != nil {
		t.Errorf("check after: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ source, readme, want string }{
		"no marks":              {sound, "# Title\n", "want a line " + markBegin},
		"no type":               {"variable \"a\" {\n  description = \"A.\"\n}\n", marked, "variable a has no type"},
		"no description":        {"variable \"a\" {\n  type = string\n}\n", marked, "no description"},
		"output undescribed":    {"output \"a\" {\n  value = 1\n}\n", marked, "output a has no description"},
		"what does not parse":   {"variable \"a\" {\n", marked, "all.tf:1"},
		"description not fixed": {"output \"a\" {\n  description = var.b\n}\n", marked, "output a has no description"},
	} {
		if err := update(folder(t, c.source, c.readme), false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := update(t.TempDir(), false); err == nil || !strings.Contains(err.Error(), "no *.tf") {
		t.Errorf("an empty folder: %v", err)
	}
}
