package config

import (
	"errors"
	"fmt"

	"github.com/agext/levenshtein"
	"github.com/spf13/pflag"
)

// FlagError puts pflag's complaint about a command line the way the other complaints of
// this package are put, with the flag that was probably meant. It fits cobra's
// SetFlagErrorFunc.
func FlagError(fs *pflag.FlagSet, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		name := unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag --%s%s", name, didYouMean(name, flagNames(fs, false), "--"))
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		return fmt.Errorf("--%s: %w", flag.Name, explain(flag, invalid.GetValue(), err))
	}
	return err
}

// explain says in words why a flag did not take a value.
func explain(flag *pflag.Flag, value string, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = invalid.Unwrap()
	}
	kinds := map[string]string{"int": "a whole number", "bool": "true or false", "duration": "a duration such as 2m or 30s"}
	if kind, ok := kinds[flag.Value.Type()]; ok {
		return fmt.Errorf("%q is not %s", value, kind)
	}
	return fmt.Errorf("%q: %w", value, err)
}

// flagNames lists the flags there are, or only those that Load may set.
func flagNames(fs *pflag.FlagSet, settings bool) []string {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !settings || isSetting(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// didYouMean offers the candidate that is a few typing errors away, if there is one.
func didYouMean(word string, candidates []string, prefix string) string {
	best, nearest := max(2, len(word)/4)+1, ""
	for _, candidate := range candidates {
		if d := levenshtein.Distance(word, candidate, nil); d < best {
			best, nearest = d, candidate
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, nearest)
}
