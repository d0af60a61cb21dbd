class Kinesin < Formula
  desc "Durable scheduler of delayed tasks"
  homepage "https://github.com/kinesin-io/kinesin"
  version "VERSION"
  license "Apache-2.0"
  URLS

  def install
    bin.install "kinesin", "kinesin-bench"
    ["kinesin", "kinesin-bench"].each do |name|
      bash_completion.install "completions/#{name}.bash" => name
      zsh_completion.install "completions/_#{name}"
      fish_completion.install "completions/#{name}.fish"
    end
  end

  service do
    run [opt_bin/"kinesin", "serve", "--data", var/"kinesin"]
    keep_alive true
    log_path var/"log/kinesin.log"
    error_log_path var/"log/kinesin.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/kinesin version")
  end
end
