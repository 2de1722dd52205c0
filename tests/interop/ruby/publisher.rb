# Sends messages to a topic, asks the listener for its report and ends it.
#
#     ruby publisher.rb PORT MESSAGES

require "stomp"

EVENTS = "/topic/event"
CONTROL = "/topic/control"
BODY = "abcdefghijklmnopqrstuvwxyz" * 10

$stdout.sync = true
connection = Stomp::Connection.open("", "", "127.0.0.1", ARGV.fetch(0).to_i)
connection.subscribe(CONTROL, { :ack => "auto", :receipt => "subscribed" })
receipt = connection.receive
abort "expected a receipt, got #{receipt.command}" unless receipt.command == "RECEIPT"

1.upto(ARGV.fetch(1).to_i) do |number|
  connection.publish(EVENTS, BODY, { "persistent" => "false", "number" => number.to_s })
  puts "Sent #{number} messages" if (number % 1000).zero?
end
connection.publish(EVENTS, "REPORT", { "persistent" => "false" })
puts connection.receive.body
connection.publish(EVENTS, "SHUTDOWN", { "persistent" => "false" })
connection.disconnect
puts "Done"
