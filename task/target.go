package task

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Limits and defaults of a target.
const (
	TargetURLBytesMax    = 2048
	TargetHeadersMax     = 16
	TargetHeaderBytesMax = 4096 // name and value of one
	TargetSecretsMax     = 2    // so that one can be rotated
	TargetSecretBytesMin = 24   // as Standard Webhooks wants
	TargetSecretBytesMax = 64
	TargetSlotsMax       = 10_000
	TargetSlotsDefault   = 100
	TargetMethodDefault  = "POST"

	// TargetSecretPrefix begins a secret in its text form, before the base64 of its bytes.
	TargetSecretPrefix = "whsec_"
)

// Kinds of targets.
const (
	TargetHTTP      = "http"
	TargetAWSLambda = "aws-lambda"
)

const arnPrefix = "arn:"

// Target is what the servers call for each task of a lambda, in place of a worker.
type Target struct {
	// URL is an http or https URL, which may have words of the task (TargetURL), or the ARN of an AWS Lambda
	// function.
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"`  // of an http target; empty: TargetMethodDefault
	Headers map[string]string `json:"headers,omitempty"` // of an http target
	// Secrets sign the calls of an http target, each with a signature of its own; nil: nothing is signed.
	Secrets [][]byte `json:"secrets,omitempty"`
	Slots   uint16   `json:"slots,omitempty"` // calls at a time, by each server; 0: TargetSlotsDefault
	Async   bool     `json:"async,omitempty"` // of a function: it is invoked by an event, and not waited for
}

// Kind returns what kind of target it is.
func (t *Target) Kind() string {
	if strings.HasPrefix(t.URL, arnPrefix) {
		return TargetAWSLambda
	}
	return TargetHTTP
}

// SlotsOrDefault returns how many calls each server makes at a time.
func (t *Target) SlotsOrDefault() int {
	if t.Slots == 0 {
		return TargetSlotsDefault
	}
	return int(t.Slots)
}

// TargetMethods are the methods of an http target. GET and DELETE have no body.
func TargetMethods() []string { return []string{"POST", "PUT", "PATCH", "DELETE", "GET"} }

var (
	functionForm    = regexp.MustCompile(`^arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:[a-zA-Z0-9_-]{1,64}(:[a-zA-Z0-9$_-]{1,128})?$`)
	headerNameForm  = regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,128}$")
	headerValueForm = regexp.MustCompile(`^[\t\x20-\x7e\x80-\xff]*$`)
)

// ourHeaders are set for each call, so that settings may not.
var ourHeaders = []string{"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade", "traceparent"}

// Validate checks the settings and says for each wrong one what is allowed.
func (t *Target) Validate() error {
	if t.Slots > TargetSlotsMax {
		return fmt.Errorf("%w target slots %d: want 1 to %d", ErrInvalid, t.Slots, TargetSlotsMax)
	}
	if t.Kind() == TargetAWSLambda {
		return t.checkFunction()
	}
	u, err := ParseTargetURL(t.URL)
	if err != nil {
		return err
	}
	if u.AnyHost() && len(t.Headers) > 0 {
		return fmt.Errorf("%w target headers: the host of the URL has a word of the task, so whoever schedules one would choose who gets them", ErrInvalid)
	}
	errs := []error{t.checkHeaders(), t.checkSecrets()}
	if t.Async {
		errs = append(errs, fmt.Errorf("%w target async: only for an AWS Lambda function", ErrInvalid))
	}
	if t.Method != "" && !slices.Contains(TargetMethods(), t.Method) {
		errs = append(errs, fmt.Errorf("%w target method %.20q: want one of %s", ErrInvalid, t.Method, strings.Join(TargetMethods(), ", ")))
	}
	return errors.Join(errs...)
}

// checkTarget checks the target of a lambda, if it has one.
func (l *Lambda) checkTarget() error {
	switch {
	case l.Target == nil:
		return nil
	case l.Mode == Deliver:
		return fmt.Errorf("%w target: lambda %s is of mode deliver, whose tasks are put on a queue and not executed by Kinesin", ErrInvalid, l.Name)
	}
	return l.Target.Validate()
}

func (t *Target) checkFunction() error {
	switch {
	case !functionForm.MatchString(t.URL):
		return fmt.Errorf("%w target ARN %.200q: want that of an AWS Lambda function, such as arn:aws:lambda:eu-central-1:123456789012:function:mail", ErrInvalid, t.URL)
	case t.Method != "" || len(t.Headers) > 0 || len(t.Secrets) > 0:
		return fmt.Errorf("%w target method, headers and secrets: an AWS Lambda function has none", ErrInvalid)
	}
	return nil
}

// checkHeaders quotes no value, which may be a secret.
func (t *Target) checkHeaders() error {
	if n := len(t.Headers); n > TargetHeadersMax {
		return fmt.Errorf("%w target headers: want at most %d, have %d", ErrInvalid, TargetHeadersMax, n)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		lower, value := strings.ToLower(name), t.Headers[name]
		switch {
		case !headerNameForm.MatchString(name) || name != lower:
			return fmt.Errorf("%w name of a target header %.128q: want a name of HTTP in small letters, such as authorization", ErrInvalid, name)
		case slices.Contains(ourHeaders, lower) || strings.HasPrefix(lower, "kinesin-") || strings.HasPrefix(lower, "webhook-"):
			return fmt.Errorf("%w target header %s: Kinesin sets it", ErrInvalid, name)
		case len(name)+len(value) > TargetHeaderBytesMax || !headerValueForm.MatchString(value):
			return fmt.Errorf("%w value of target header %s: want at most %d bytes of text without line breaks", ErrInvalid, name, TargetHeaderBytesMax-len(name))
		}
	}
	return nil
}

func (t *Target) checkSecrets() error {
	if n := len(t.Secrets); n > TargetSecretsMax {
		return fmt.Errorf("%w target secrets: want at most %d, have %d", ErrInvalid, TargetSecretsMax, n)
	}
	for _, s := range t.Secrets {
		if len(s) < TargetSecretBytesMin || len(s) > TargetSecretBytesMax {
			return fmt.Errorf("%w target secret of %d bytes: want %d to %d", ErrInvalid, len(s), TargetSecretBytesMin, TargetSecretBytesMax)
		}
	}
	return nil
}

// ParseTargetSecret reads the text form of a secret: "whsec_" and the base64 of 24 to 64 bytes. Its error does
// not quote the text.
func ParseTargetSecret(text string) ([]byte, error) {
	encoded, is := strings.CutPrefix(text, TargetSecretPrefix)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !is || err != nil || len(secret) < TargetSecretBytesMin || len(secret) > TargetSecretBytesMax {
		return nil, fmt.Errorf("%w target secret: want %s and the base64 of %d to %d bytes", ErrInvalid, TargetSecretPrefix, TargetSecretBytesMin, TargetSecretBytesMax)
	}
	return secret, nil
}

// TargetSecretText returns the text form of a secret.
func TargetSecretText(secret []byte) string {
	return TargetSecretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// HeaderNames returns the names of the headers, in order.
func (t *Target) HeaderNames() []string { return slices.Sorted(maps.Keys(t.Headers)) }

// KeepsTo reports whether t goes to the same host as before, so that it may keep the headers and secrets that
// were given for that host.
func (t *Target) KeepsTo(before *Target) bool {
	now, err := ParseTargetURL(t.URL)
	then, errThen := ParseTargetURL(before.URL)
	return err == nil && errThen == nil && now.origin() == then.origin()
}

// TargetURL is the URL of an http target. It may have words of the task: {key} and {tag.NAME}. A word stands
// for its value, escaped for where it stands, or for all of the URL.
type TargetURL struct {
	parts []urlPart
	whole bool // it is one word
}

// urlPart is a piece of a URL: text as it is, or a word.
type urlPart struct {
	text, word string
	in         urlPlace
}

type urlPlace int

const (
	inHost urlPlace = iota
	inPath
	inQuery
)

var (
	wordForm     = regexp.MustCompile(`\{[^{}]*\}`)
	wordNameForm = regexp.MustCompile(`^(key|tag\..{1,128})$`)
	hostForm     = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$`)
)

// ParseTargetURL reads the URL of an http target.
func ParseTargetURL(text string) (*TargetURL, error) {
	if len(text) > TargetURLBytesMax {
		return nil, fmt.Errorf("%w target URL of %d bytes: want at most %d", ErrInvalid, len(text), TargetURLBytesMax)
	}
	t := &TargetURL{}
	at := 0
	for _, m := range append(wordForm.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		t.parts = append(t.parts, urlPart{text: text[at:m[0]], in: placeIn(text[:m[0]])})
		if at = m[1]; m[0] == m[1] {
			break
		}
		word := text[m[0]+1 : m[1]-1]
		if !wordNameForm.MatchString(word) {
			return nil, fmt.Errorf("%w word {%.80s} of a target URL: want {key} or {tag.NAME}", ErrInvalid, word)
		}
		t.parts = append(t.parts, urlPart{word: word, in: placeIn(text[:m[0]])})
	}
	if t.whole = len(t.parts) == 3 && t.parts[0].text == "" && t.parts[2].text == ""; t.whole {
		return t, nil
	}
	_, err := checkURL(wordForm.ReplaceAllString(text, "w"))
	return t, err
}

// placeIn returns where in a URL what follows stands.
func placeIn(before string) urlPlace {
	_, after, _ := strings.Cut(before, "://")
	switch {
	case strings.Contains(after, "?"):
		return inQuery
	case strings.Contains(after, "/"):
		return inPath
	}
	return inHost
}

func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || strings.ContainsAny(text, "{}#") {
		return nil, fmt.Errorf("%w target URL: want http or https and a host, without a user, a fragment or braces but for words, such as https://mail.example.com/tasks/{key}", ErrInvalid)
	}
	return u, nil
}

// AnyHost reports whether a word says which host is called.
func (t *TargetURL) AnyHost() bool {
	return t.whole || slices.ContainsFunc(t.parts, func(p urlPart) bool { return p.word != "" && p.in == inHost })
}

// origin returns the scheme, host and port, with words as they are.
func (t *TargetURL) origin() string {
	text := strings.Builder{}
	for _, p := range t.parts {
		if p.word != "" && (p.in == inHost || t.whole) {
			text.WriteString("{" + p.word + "}")
		}
		text.WriteString(p.text)
	}
	scheme, rest, _ := strings.Cut(text.String(), "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		rest = rest[:i]
	}
	return strings.ToLower(scheme + "://" + rest)
}

// Of returns the URL for a task. An error, ErrInvalid, says that the task has no value for a word, or one that
// may not stand there.
func (t *TargetURL) Of(key string, tags map[string]string) (*url.URL, error) {
	var text strings.Builder
	for _, p := range t.parts {
		text.WriteString(p.text)
		if p.word == "" {
			continue
		}
		value, has := key, key != ""
		if name, is := strings.CutPrefix(p.word, "tag."); is {
			value, has = tags[name]
		}
		if !has {
			return nil, fmt.Errorf("%w task: it has no %s, which is in the URL of its target", ErrInvalid, p.word)
		}
		if t.whole {
			return checkURL(value)
		}
		escaped, err := p.escape(value)
		if err != nil {
			return nil, err
		}
		text.WriteString(escaped)
	}
	u, err := checkURL(text.String())
	if err == nil && slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		return nil, fmt.Errorf("%w task: its values make a path with . or .. of the URL of its target", ErrInvalid)
	}
	return u, err
}

// escape returns the value of a word so that it stands for itself in its place, and changes nothing around it.
func (p *urlPart) escape(value string) (string, error) {
	switch {
	case p.in == inQuery:
		return url.QueryEscape(value), nil
	case p.in == inPath:
		return url.PathEscape(value), nil
	case p.in == inHost && hostForm.MatchString(value):
		return value, nil
	}
	return "", fmt.Errorf("%w %s of the task: it cannot stand where the URL of its target has it", ErrInvalid, p.word)
}
