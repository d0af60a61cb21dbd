// Package wirecopy copies messages of the wire to the types that users of Go have, and back: field by field, by name
// and kind. It looks at each pair of types once.
//
// Names are equal but for case, so that Id is ID. The kinds are
//
//	int64 in microseconds      time.Time (0: zero, in UTC), time.Duration
//	integers                   integers of any size
//	string                     any type of strings
//	optional integers          integers; absent is -1, and to the wire 0 is absent
//	a message                  a struct, or a pointer to one; absent is the zero struct
//	lists and maps             lists and maps of these
//
// A Go field that the message does not have stays as it is, and so does a field of the message without a Go field:
// wirecopytest tells which ones there are.
package wirecopy

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"
)

// From returns a message as users have it. nil is the zero value.
func From[T, M any](message *M) T {
	var value T
	if message != nil {
		fields(reflect.ValueOf(&value).Elem(), reflect.ValueOf(message).Elem())
	}
	return value
}

// All returns the messages of a list as users have them.
func All[T, M any](messages []*M) []T {
	all := make([]T, len(messages))
	for i, m := range messages {
		all[i] = From[T](m)
	}
	return all
}

// To returns what a user has as a message.
func To[M, T any](value *T) *M {
	message := new(M)
	fields(reflect.ValueOf(message).Elem(), reflect.ValueOf(value).Elem())
	return message
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
)

// visible returns the exported fields of a struct, and of what is embedded in it.
func visible(t reflect.Type) (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous {
			all = append(all, f)
		}
	}
	return all
}

// named returns the field of a struct with a name.
func named(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range visible(t) {
		if strings.EqualFold(f.Name, name) {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func fields(to, from reflect.Value) {
	for _, p := range pairsOf(to.Type(), from.Type()) {
		copyTo(to.FieldByIndex(p.to), from.FieldByIndex(p.from))
	}
}

// pair is where a field is in both of two structs.
type pair struct{ to, from []int }

// known are the pairs of two types: []pair by [2]reflect.Type. There are as many as types are used.
var known sync.Map

func pairsOf(to, from reflect.Type) (all []pair) {
	if found, is := known.Load([2]reflect.Type{to, from}); is {
		all, _ = found.([]pair)
		return all
	}
	for _, f := range visible(to) {
		if source, found := named(from, f.Name); found {
			all = append(all, pair{f.Index, source.Index})
		}
	}
	known.Store([2]reflect.Type{to, from}, all)
	return all
}

func copyTo(to, from reflect.Value) {
	switch t := to.Type(); {
	case t == from.Type() && t.Kind() != reflect.Pointer:
		to.Set(from)
	case t == timeType:
		if from.Int() != 0 {
			to.Set(reflect.ValueOf(time.UnixMicro(from.Int()).UTC()))
		}
	case t == durationType:
		to.SetInt(int64(micros(from.Int())))
	case from.Type() == timeType:
		if at, _ := reflect.TypeAssert[time.Time](from); !at.IsZero() {
			to.SetInt(at.UnixMicro())
		}
	case from.Type() == durationType:
		to.SetInt(time.Duration(from.Int()).Microseconds())
	case from.Kind() == reflect.Pointer:
		copyPointed(to, from)
	case t.Kind() == reflect.Pointer:
		copyPointer(to, from)
	default:
		copyKind(to, from)
	}
}

// micros returns a duration of the wire, at most the longest that there is.
func micros(n int64) time.Duration {
	return time.Duration(min(max(n, math.MinInt64/1000), math.MaxInt64/1000)) * time.Microsecond
}

// copyPointed copies what a pointer points to, if anything.
func copyPointed(to, from reflect.Value) {
	switch {
	case !from.IsNil() && to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		copyTo(to.Elem(), from.Elem())
	case !from.IsNil():
		copyTo(to, from.Elem())
	case to.CanInt():
		to.SetInt(-1)
	}
}

// copyPointer copies a value to what is absent if the value is zero.
func copyPointer(to, from reflect.Value) {
	if from.IsZero() {
		return
	}
	to.Set(reflect.New(to.Type().Elem()))
	copyTo(to.Elem(), from)
}

func copyKind(to, from reflect.Value) {
	switch {
	case to.CanInt() && (from.CanInt() || from.CanUint()):
		to.SetInt(fitting(to, number(from)))
	case to.CanUint() && from.CanInt():
		to.SetUint(countOf(from.Int()))
	case to.Kind() == reflect.Struct && from.Kind() == reflect.Struct:
		fields(to, from)
	case to.Kind() == reflect.Slice && from.Kind() == reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			copyTo(to.Index(i), from.Index(i))
		}
	case to.Kind() == reflect.Map && from.Kind() == reflect.Map:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
		for key, value := range from.Seq2() {
			k, v := reflect.New(to.Type().Key()).Elem(), reflect.New(to.Type().Elem()).Elem()
			copyTo(k, key)
			copyTo(v, value)
			to.SetMapIndex(k, v)
		}
	case to.Kind() == from.Kind() && from.CanConvert(to.Type()):
		to.Set(from.Convert(to.Type()))
	default:
		panic(fmt.Sprintf("wirecopy: a %v from a %v", to.Type(), from.Type()))
	}
}

func number(v reflect.Value) int64 {
	if v.CanInt() {
		return v.Int()
	}
	return int64(min(v.Uint(), math.MaxInt64))
}

// fitting returns a number, or the one next to it that a type has.
func fitting(to reflect.Value, n int64) int64 {
	if !to.OverflowInt(n) {
		return n
	}
	bits := to.Type().Bits() - 1
	return min(max(n, -1<<bits), 1<<bits-1)
}

// countOf returns a number as the wire has it. One below 0, and one too large, becomes one that servers refuse.
func countOf(n int64) uint64 {
	if n < 0 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return uint64(n)
}
