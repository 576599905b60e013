// A webhook receiver to copy: it verifies, dedupes and answers. The standard library and nothing else.
// WEBHOOK_SECRET=whsec_… go run receiver.go 8001        (during a rotation: WEBHOOK_SECRET=whsec_new,whsec_old)
package main

import ("bufio"; "crypto/hmac"; "crypto/sha256"; "encoding/hex"; "encoding/json"; "fmt"; "io"; "log"; "math"; "net/http"; "os"; "strconv"; "strings"; "sync"; "time")

type Event struct { ID, Type string; Data json.RawMessage }

var secrets = strings.FieldsFunc(os.Getenv("WEBHOOK_SECRET"), func(each rune) bool { return each == ',' })
var mutex sync.Mutex
var seen = map[string]bool{} // better in your database, as a unique key that commits with the work
var journal *os.File

// t=<seconds>,v1=<hex>[,v1=<hex>]: HMAC-SHA256 of <t>.<body>, over the body's bytes exactly as they came.
func isAuthentic(header string, body []byte, now time.Time) bool {
	timestamp, given := "", [][]byte{}
	for _, field := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		if name == "t" { timestamp = value }
		if digest, err := hex.DecodeString(value); name == "v1" && err == nil { given = append(given, digest) }
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || math.Abs(float64(now.Unix()-seconds)) > 300 { return false }
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(append([]byte(timestamp+"."), body...))
		for _, digest := range given { if secret != "" && hmac.Equal(digest, mac.Sum(nil)) { return true } }
	}
	return false
}

func work(event Event) error {
	fmt.Println(event.Type, event.ID) // your code goes here
	return nil
}

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1_000_000))
	if err != nil { w.WriteHeader(413); return }
	if !isAuthentic(r.Header.Get("webhook-signature"), body, time.Now()) { w.WriteHeader(401); return }
	var event Event
	if json.Unmarshal(body, &event) != nil || event.ID == "" || event.ID != r.Header.Get("webhook-id") { w.WriteHeader(400); return }
	mutex.Lock() // one at a time: of two copies at the same moment, the second finds the first done
	defer mutex.Unlock()
	if seen[event.ID] { return } // a duplicate is answered 200 as well
	if err := work(event); err != nil { log.Print(err); w.WriteHeader(500); return }
	fmt.Fprintln(journal, event.ID)
	if err := journal.Sync(); err != nil { log.Print(err); w.WriteHeader(500); return }
	seen[event.ID] = true
}

func main() {
	path := os.Getenv("WEBHOOK_SEEN"); if path == "" { path = "seen.log" }
	journal, _ = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	for lines := bufio.NewScanner(journal); lines.Scan(); { seen[lines.Text()] = true }
	http.HandleFunc("POST /", receive)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
