# A webhook receiver to copy: it verifies, dedupes and answers. The standard library and nothing else.
# WEBHOOK_SECRET=whsec_… ruby receiver.rb 8001        (during a rotation: WEBHOOK_SECRET=whsec_new,whsec_old)
%w[json openssl set socket].each { |library| require library }
$stdout.sync = true
SECRETS = ENV.fetch("WEBHOOK_SECRET", "").split(",").reject(&:empty?)
JOURNAL = File.open(ENV.fetch("WEBHOOK_SEEN", "seen.log"), "a+")
# Better in your database, as a unique key that commits with the work: then a crash in between repeats nothing.
SEEN = Set.new(JOURNAL.each_line(chomp: true))
LOCK = Mutex.new

# t=<seconds>,v1=<hex>[,v1=<hex>]: HMAC-SHA256 of <t>.<body>, over the body's bytes exactly as they came.
def authentic?(header, body, now)
  fields = header.split(",").map { |field| field.strip.split("=", 2) }
  timestamp = fields.assoc("t")&.last.to_s
  return false unless timestamp.match?(/\A\d{1,12}\z/) && (now - timestamp.to_i).abs <= 300

  expected = SECRETS.map { |secret| OpenSSL::HMAC.hexdigest("SHA256", secret, "#{timestamp}.".b + body) }
  fields.any? { |name, value| name == "v1" && expected.any? { |each| OpenSSL.secure_compare(each, value.to_s) } }
end

def work(event)
  $stdout.write("#{event["type"]} #{event["id"]}\n") # your code goes here
end

def receive(headers, body)
  return 401 unless authentic?(headers["webhook-signature"].to_s, body, Time.now.to_i)

  event = JSON.parse(body)
  return 400 unless event.is_a?(Hash) && event["id"].is_a?(String) && event["id"] == headers["webhook-id"]

  LOCK.synchronize do # of two copies at the same moment, the second finds the first done
    next 200 if SEEN.include?(event["id"]) # a duplicate is answered like the first

    work(event)
    JOURNAL.puts(event["id"])
    JOURNAL.fsync
    SEEN.add(event["id"])
    200
  end
rescue JSON::ParserError
  400
end

server = TCPServer.new("127.0.0.1", Integer(ARGV.fetch(0)))
loop do
  Thread.new(server.accept) do |socket|
    method = socket.gets.to_s.split.first
    lines = socket.each_line.lazy.map(&:chomp).take_while { |line| !line.empty? }
    headers = lines.to_h { |line| line.split(":", 2).map(&:strip).then { |name, value| [name.downcase, value] } }
    length = headers["content-length"].to_i
    status = method != "POST" ? 405 : length > 1_000_000 ? 413 : receive(headers, socket.read(length).to_s)
    socket.write("HTTP/1.1 #{status} -\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
  ensure
    socket.close
  end
end
