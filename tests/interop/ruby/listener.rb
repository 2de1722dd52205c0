# Counts what comes on a topic; asked for a report, sends it back, and ends when it is told to.
#
#     ruby listener.rb PORT

require "stomp"

EVENTS = "/topic/event"
CONTROL = "/topic/control"

$stdout.sync = true
connection = Stomp::Connection.open("", "", "127.0.0.1", ARGV.fetch(0).to_i)
connection.subscribe(EVENTS, { :ack => "auto", :receipt => "subscribed" })
receipt = connection.receive
abort "expected a receipt, got #{receipt.command}" unless receipt.command == "RECEIPT"
puts "Waiting for messages"

count = 0
start = Time.now
loop do
  message = connection.receive
  case message.body
  when "SHUTDOWN"
    break
  when "REPORT"
    seconds = Time.now - start
    connection.publish(CONTROL, "Received #{count} in #{seconds} seconds")
    count = 0
  else
    start = Time.now if count.zero?
    count += 1
    puts "Received #{count} messages." if (count % 1000).zero?
  end
end
connection.disconnect
puts "Finished"
