package awslambda

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/kinesin-io/kinesin/task"
)

// Functions are the functions that may be invoked, as ARNs in which a star stands for any characters, as in a
// policy of IAM. nil: none.
type Functions []string

// functionsForm has no character that path.Match knows but the star.
var functionsForm = regexp.MustCompile(`^arn:aws[a-z-]*:lambda:[a-z0-9*-]+:[0-9*]+:function:[a-zA-Z0-9$_:*-]+$`)

// Validate refuses patterns that are no ARNs of functions, with task.ErrInvalid.
func (f Functions) Validate() error {
	for _, pattern := range f {
		if !functionsForm.MatchString(pattern) {
			return fmt.Errorf("%w ARN of functions %.200q: want one such as arn:aws:lambda:eu-central-1:123456789012:function:mail, in which a star stands for any characters",
				task.ErrInvalid, pattern)
		}
	}
	return nil
}

// Check refuses a function that may not be invoked, with task.ErrInvalid.
func (f Functions) Check(arn string) error {
	for _, pattern := range f {
		if matches, _ := path.Match(pattern, arn); matches { // a bad pattern matches nothing
			return nil
		}
	}
	if len(f) == 0 {
		return fmt.Errorf("%w target %.200s: this server may invoke no functions (serve --targets-functions)", task.ErrInvalid, arn)
	}
	return fmt.Errorf("%w target %.200s: this server may invoke only %s (serve --targets-functions)", task.ErrInvalid, arn, strings.Join(f, ", "))
}
