package gcp

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Objects is Cloud Storage with what is in buckets, as a client uses it that keeps files there: objects are written whole, and
// written or removed only in the generation that was named. Buckets are there as soon as somebody writes to them.
type Objects struct {
	token string

	mu         sync.Mutex
	generation int64
	objects    map[string]object // by bucket and name
}

type object struct {
	content    []byte
	generation int64
}

// NewObjects is empty, and for who bears the token.
func NewObjects(token string) *Objects {
	return &Objects{token: token, objects: map[string]object{}}
}

// Names are those of all objects, with their bucket's before it.
func (o *Objects) Names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.objects))
}

// Content is that of an object; nil where there is none.
func (o *Objects) Content(name string) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.objects[name].content
}

func (o *Objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+o.token {
		http.Error(w, "these credentials are not accepted", http.StatusUnauthorized)
		return
	}
	if bucket, found := strings.CutPrefix(r.URL.Path, "/upload/storage/v1/b/"); found && r.Method == http.MethodPost {
		o.upload(w, r, strings.TrimSuffix(bucket, "/o"))
		return
	}
	name, described := strings.CutPrefix(r.URL.Path, "/storage/v1/b/")
	if bucket, found := strings.CutSuffix(name, "/o"); described && found && r.Method == http.MethodGet {
		o.list(w, bucket+"/"+r.URL.Query().Get("prefix"))
		return
	}
	name = strings.TrimPrefix(strings.Replace(name, "/o/", "/", 1), "/")
	have, found := o.objects[name]
	switch {
	case !found:
		http.Error(w, name+" was not found", http.StatusNotFound)
	case !matches(r, have.generation):
		http.Error(w, "the generation is another", http.StatusPreconditionFailed)
	case r.Method == http.MethodDelete:
		delete(o.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case described:
		answer(w, have.describe(name))
	default:
		w.Header().Set("X-Goog-Generation", strconv.FormatInt(have.generation, 10))
		_, _ = w.Write(have.content) // to a client that may be gone
	}
}

// matches tells whether an object has the generation that the request is for, 0 for none at all.
func matches(r *http.Request, generation int64) bool {
	want := r.URL.Query().Get("ifGenerationMatch")
	return want == "" || want == strconv.FormatInt(generation, 10)
}

// upload takes an object in two parts: what is said of it, and what it is.
func (o *Objects) upload(w http.ResponseWriter, r *http.Request, bucket string) {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var parts [][]byte
	for reader := multipart.NewReader(r.Body, parameters["boundary"]); len(parts) < 2; {
		part, err := reader.NextPart()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		content, err := io.ReadAll(part)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		parts = append(parts, content)
	}
	var said struct{ Name string }
	if err := json.NewDecoder(bytes.NewReader(parts[0])).Decode(&said); err != nil || said.Name == "" {
		http.Error(w, "the object has no name", http.StatusBadRequest)
		return
	}
	name := bucket + "/" + said.Name
	if !matches(r, o.objects[name].generation) {
		http.Error(w, "the generation is another", http.StatusPreconditionFailed)
		return
	}
	o.generation++
	o.objects[name] = object{parts[1], o.generation}
	answer(w, o.objects[name].describe(name))
}

// list tells of all objects that begin so.
func (o *Objects) list(w http.ResponseWriter, prefix string) {
	items := []any{}
	for _, name := range slices.Sorted(maps.Keys(o.objects)) {
		if strings.HasPrefix(name, prefix) {
			items = append(items, o.objects[name].describe(name))
		}
	}
	answer(w, document{"kind": "storage#objects", "items": items})
}

func (o object) describe(name string) document {
	bucket, name, _ := strings.Cut(name, "/")
	sum := md5.Sum(o.content)
	return document{
		"kind": "storage#object", "bucket": bucket, "name": name, "generation": strconv.FormatInt(o.generation, 10), "metageneration": "1",
		"size": strconv.Itoa(len(o.content)), "md5Hash": base64.StdEncoding.EncodeToString(sum[:]),
	}
}

func answer(w http.ResponseWriter, with document) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(with) // to a client that may be gone
}
