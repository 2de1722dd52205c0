"""What is played on both brokers: one public function per scenario, one module per part of JMS."""
